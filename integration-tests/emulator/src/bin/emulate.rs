//! x
fn main() {
    let path = std::env::args().nth(1).unwrap();
    let s = brasserie_emulator::Scenario::read(std::path::Path::new(&path), &Default::default()).unwrap_or_else(|e| {eprint!("{e}"); std::process::exit(1)});
    let t = std::time::Instant::now();
    let o = brasserie_emulator::run::run(&s, &mut |_| ());
    brasserie_emulator::output::write(std::path::Path::new("/tmp/e-out"), &o).unwrap();
    println!("{} {:?}", brasserie_emulator::output::text::results(&o), t.elapsed());
}
