//! Chooses the GPUs of a task: whole ones, or a part of one, in thousandths. Integer sums are exact, so that three thirds of 333 never
//! exceed a GPU, and no GPU is given twice.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// A whole GPU in thousandths.
pub const WHOLE_CARD: u32 = 1000;

/// The limits for the models that one task may name, and for the whole GPUs of each model or of any: more than any machine has.
pub const MAX_MODELS: usize = 32;
pub const MAX_CARDS: u32 = 10_000;

/// A GPU of a machine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Card {
    /// The unique name of the GPU on its machine.
    pub device: Arc<str>,
    pub model: Arc<str>,
}

/// A task's share of one GPU.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GpuShare {
    pub device: Arc<str>,
    /// Thousandths of the GPU.
    pub milli: u32,
}

/// An amount of GPUs: a part of one, or whole ones. More than one GPU is always whole, because a program cannot use two halves as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CardAmount {
    /// Thousandths: more than zero, and less than a whole GPU.
    Part(u32),
    Whole(u32),
}

/// The reason why a number of slots is no amount of GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CardAmountError {
    #[error("less than no GPU")]
    Negative,
    #[error("not in whole thousandths of a GPU")]
    Finer,
    #[error("more than one GPU, and not in whole GPUs")]
    Uneven,
    #[error("more GPUs than can be counted")]
    TooMany,
}

impl CardAmount {
    pub const NONE: CardAmount = CardAmount::Whole(0);

    /// Returns the amount of `slots` slots of `cards_a_slot` GPUs each. The number counts as its shortest decimal, so a tenth is exactly a
    /// tenth.
    pub fn of_slots(slots: i32, cards_a_slot: f64) -> Result<CardAmount, CardAmountError> {
        if slots == 0 || cards_a_slot == 0.0 {
            return Ok(CardAmount::NONE);
        }
        let (digits, exponent) = decimal(cards_a_slot).ok_or(CardAmountError::TooMany)?;
        // A slot count times at most 17 digits fits.
        let amount = i128::from(slots) * i128::from(digits);
        if amount < 0 {
            return Err(CardAmountError::Negative);
        }
        // The decimal point of thousandths is three digits further right.
        let shift = exponent + 3;
        let power = 10_i128.checked_pow(shift.unsigned_abs());
        let milli = match (shift >= 0, power) {
            (true, Some(power)) => amount.checked_mul(power),
            (true, None) => None,
            (false, Some(power)) if amount % power == 0 => Some(amount / power),
            // A power too large to represent is also above the amount, so it is no divisor.
            (false, Some(_) | None) => return Err(CardAmountError::Finer),
        };
        let milli = milli.and_then(|milli| u64::try_from(milli).ok());
        CardAmount::of_milli(milli.ok_or(CardAmountError::TooMany)?)
    }

    fn of_milli(milli: u64) -> Result<CardAmount, CardAmountError> {
        let whole = u64::from(WHOLE_CARD);
        match (milli / whole, milli % whole) {
            // The part is below a thousand.
            (0, part) if part > 0 => Ok(CardAmount::Part(part as u32)),
            (cards, 0) => u32::try_from(cards)
                .map(CardAmount::Whole)
                .map_err(|_| CardAmountError::TooMany),
            (_, _) => Err(CardAmountError::Uneven),
        }
    }
}

/// Returns a finite number as `digits * 10^exponent`, from its shortest exact decimal.
fn decimal(number: f64) -> Option<(i64, i32)> {
    let text = format!("{number:e}");
    let (mantissa, exponent) = text.split_once('e')?;
    let fraction = mantissa.split_once('.').map_or(0, |(_, f)| f.len());
    let digits: i64 = mantissa.replace('.', "").parse().ok()?;
    let exponent: i32 = exponent.parse().ok()?;
    Some((digits, exponent - i32::try_from(fraction).ok()?))
}

impl fmt::Display for CardAmount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CardAmount::Part(milli) => write!(f, "{} of a GPU", Milli(*milli)),
            CardAmount::Whole(1) => f.write_str("1 whole GPU"),
            CardAmount::Whole(cards) => write!(f, "{cards} whole GPUs"),
        }
    }
}

/// Thousandths, displayed as a decimal number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Milli(pub u32);

impl fmt::Display for Milli {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, part) = (self.0 / WHOLE_CARD, self.0 % WHOLE_CARD);
        if part == 0 {
            return write!(f, "{whole}");
        }
        let part = format!("{part:03}");
        write!(f, "{whole}.{}", part.trim_end_matches('0'))
    }
}

/// The GPUs that a task needs of its machine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CardNeed {
    /// Whole GPUs of certain models; no count is 0.
    of_models: BTreeMap<String, u32>,
    /// GPUs of any model, in addition to those.
    of_any: CardAmount,
}

impl Default for CardNeed {
    /// Returns an empty need.
    fn default() -> Self {
        CardNeed {
            of_models: BTreeMap::new(),
            of_any: CardAmount::NONE,
        }
    }
}

impl CardNeed {
    /// Creates the need of a task that needs `all` GPUs in total, among them these whole GPUs of certain models.
    pub fn new(all: CardAmount, mut of_models: BTreeMap<String, u32>) -> Self {
        of_models.retain(|_, cards| *cards > 0);
        let named = of_models
            .values()
            .fold(0, |sum: u32, cards| sum.saturating_add(*cards));
        let of_any = match all {
            CardAmount::Whole(cards) => CardAmount::Whole(cards.saturating_sub(named)),
            CardAmount::Part(_) if named > 0 => CardAmount::NONE,
            CardAmount::Part(_) => all,
        };
        CardNeed { of_models, of_any }
    }

    /// Creates a need from whole GPUs of each of these models, plus `of_any` of any model. Returns `None` if a count is out of range.
    pub fn of_parts(of_models: BTreeMap<String, u32>, of_any: CardAmount) -> Option<Self> {
        let is_some = |cards: &u32| (1..=MAX_CARDS).contains(cards);
        let are_some = of_models.len() <= MAX_MODELS && of_models.values().all(is_some);
        let fits = match of_any {
            CardAmount::Part(milli) => (1..WHOLE_CARD).contains(&milli) && of_models.is_empty(),
            CardAmount::Whole(cards) => cards <= MAX_CARDS,
        };
        (are_some && fits).then_some(CardNeed { of_models, of_any })
    }

    /// Returns the arguments for [`CardNeed::of_parts`].
    pub fn into_parts(self) -> (BTreeMap<String, u32>, CardAmount) {
        (self.of_models, self.of_any)
    }

    /// Returns the models of which the task needs whole GPUs.
    pub fn models(&self) -> impl Iterator<Item = &str> {
        self.of_models.keys().map(String::as_str)
    }

    /// Returns the number of GPUs, of all models together.
    pub fn amount(&self) -> f64 {
        let named: f64 = self.of_models.values().map(|cards| f64::from(*cards)).sum();
        let of_any = match self.of_any {
            CardAmount::Part(milli) => f64::from(milli) / f64::from(WHOLE_CARD),
            CardAmount::Whole(cards) => f64::from(cards),
        };
        named + of_any
    }

    pub fn is_nothing(&self) -> bool {
        self.of_models.is_empty() && self.of_any == CardAmount::NONE
    }

    /// Returns the GPUs that a task gets on a machine with this use, in the order in which the machine lists them; `None` if they are not
    /// free.
    ///
    /// Whole GPUs are the first unused ones. A part is taken of the fullest GPU with enough left, which keeps GPUs whole for tasks that
    /// need whole ones.
    pub fn pack(&self, cards: &[Card], used: &CardUse) -> Option<Vec<GpuShare>> {
        self.pack_among(cards, used, |_| true)
    }

    /// Chooses like [`CardNeed::pack`], among the GPUs for which `is_one` is true.
    pub fn pack_among(
        &self,
        cards: &[Card],
        used: &CardUse,
        is_one: impl Fn(&Card) -> bool,
    ) -> Option<Vec<GpuShare>> {
        let free: Vec<u32> = cards.iter().map(|card| used.free(&card.device)).collect();
        let mut taken = vec![0; cards.len()];
        let mut take_whole = |count: u32, fits: &dyn Fn(&Card) -> bool| {
            let mut left = count;
            for (i, card) in cards.iter().enumerate() {
                let is_free = free[i] == WHOLE_CARD && taken[i] == 0;
                if left > 0 && is_free && fits(card) && is_one(card) {
                    taken[i] = WHOLE_CARD;
                    left -= 1;
                }
            }
            left == 0
        };
        for (model, count) in &self.of_models {
            if !take_whole(*count, &|card| *card.model == **model) {
                return None;
            }
        }
        match self.of_any {
            CardAmount::Whole(count) => {
                if !take_whole(count, &|_| true) {
                    return None;
                }
            }
            // A part is the task's only GPU: a need with models has whole GPUs only.
            CardAmount::Part(milli) => {
                let with_room =
                    (0..cards.len()).filter(|i| free[*i] >= milli && is_one(&cards[*i]));
                taken[with_room.min_by_key(|i| free[*i])?] = milli;
            }
        }
        let shares = cards.iter().zip(taken).filter(|(_, milli)| *milli > 0);
        let share = |(card, milli): (&Card, u32)| GpuShare {
            device: Arc::clone(&card.device),
            milli,
        };
        Some(shares.map(share).collect())
    }
}

impl CardNeed {
    /// Chooses like [`CardNeed::pack`], but of the given model if the need allows any model and enough is free.
    pub fn pack_of(
        &self,
        model: Option<&str>,
        cards: &[Card],
        used: &CardUse,
    ) -> Option<Vec<GpuShare>> {
        let preferred = model
            .filter(|_| self.of_models.is_empty())
            .and_then(|model| self.pack_among(cards, used, |card| *card.model == *model));
        preferred.or_else(|| self.pack(cards, used))
    }

    /// Returns the GPUs that are free for this need first if no other task gets anything of them: the emptiest usable ones, in the order of
    /// the list if equal. Returns fewer than needed if the machine has no more.
    pub fn soonest(&self, cards: &[Card], used: &CardUse) -> Vec<Arc<str>> {
        let mut by_room: Vec<&Card> = cards.iter().collect();
        by_room.sort_by_key(|card| std::cmp::Reverse(used.free(&card.device)));
        let mut chosen: Vec<Arc<str>> = Vec::new();
        let mut choose = |count: u32, fits: &dyn Fn(&Card) -> bool| {
            for _ in 0..count.min(u32::try_from(cards.len()).unwrap_or(u32::MAX)) {
                let mut others = by_room.iter().filter(|card| fits(card));
                if let Some(card) = others.find(|card| !chosen.contains(&card.device)) {
                    chosen.push(Arc::clone(&card.device));
                }
            }
        };
        for (model, count) in &self.of_models {
            choose(*count, &|card| *card.model == **model);
        }
        match self.of_any {
            CardAmount::Part(_) => choose(1, &|_| true),
            CardAmount::Whole(count) => choose(count, &|_| true),
        }
        chosen
    }

    /// Returns whether the task can use GPUs of this model.
    pub fn can_use(&self, model: &str) -> bool {
        self.of_any != CardAmount::NONE || self.of_models.contains_key(model)
    }
}

impl fmt::Display for CardNeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (model, cards) in &self.of_models {
            write!(f, "{separator}{} of `{model}`", CardAmount::Whole(*cards))?;
            separator = " and ";
        }
        match self.of_any {
            CardAmount::NONE if !self.of_models.is_empty() => Ok(()),
            amount => write!(f, "{separator}{amount}"),
        }
    }
}

/// The GPUs that a task needs of a worker that chooses them itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CardsWanted {
    pub need: CardNeed,
    /// The model that the task counts as until it has its GPUs: one for which its worker requested work.
    pub counts_as: Option<Arc<str>>,
}

/// The thousandths in use of each GPU of one machine. Includes GPUs that the machine no longer lists.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CardUse(BTreeMap<Arc<str>, u64>);

/// The reason why shares are not available.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CardConflict {
    #[error("there is no GPU `{0}` here")]
    NoSuchCard(Arc<str>),
    #[error("it is given GPU `{0}` twice")]
    Twice(Arc<str>),
    #[error("{milli} thousandths of GPU `{device}` are none, or more than it has")]
    NoShare { device: Arc<str>, milli: u32 },
    #[error(
        "{} of GPU `{device}` are wanted, and {} are free", Milli(*.wanted), Milli(*.free)
    )]
    Taken {
        device: Arc<str>,
        wanted: u32,
        free: u32,
    },
    #[error("it needs {0}, and there is never as much here")]
    TooFew(CardNeed),
    #[error("it needs {0}, and there is not as much free")]
    InUse(CardNeed),
    #[error("GPU `{0}` is reserved for a task that was overtaken too often")]
    Kept(Arc<str>),
}

impl CardUse {
    pub fn take(&mut self, shares: &[GpuShare]) {
        for share in shares.iter().filter(|share| share.milli > 0) {
            let used = self.0.entry(Arc::clone(&share.device)).or_insert(0);
            *used += u64::from(share.milli);
        }
    }

    /// Takes everything that is free of these GPUs.
    pub fn take_all_of(&mut self, devices: &[Arc<str>]) {
        for device in devices {
            let used = self.0.entry(Arc::clone(device)).or_insert(0);
            *used = u64::from(WHOLE_CARD).max(*used);
        }
    }

    /// Gives back shares that were taken.
    pub fn give_back(&mut self, shares: &[GpuShare]) {
        for share in shares.iter().filter(|share| share.milli > 0) {
            let used = self.0.get_mut(&share.device);
            let used = used.expect("Invariant: who gives shares back has taken them");
            *used -= u64::from(share.milli);
            if *used == 0 {
                self.0.remove(&share.device);
            }
        }
    }

    /// Returns the free thousandths of a GPU; 0 if more is taken than exists.
    pub fn free(&self, device: &str) -> u32 {
        let used = self.0.get(device).copied().unwrap_or(0);
        WHOLE_CARD.saturating_sub(u32::try_from(used).unwrap_or(u32::MAX))
    }

    /// Returns the use of every GPU in use, by device.
    pub fn all(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(device, used)| (&**device, *used))
    }

    /// Checks whether a machine with these GPUs can give these shares in addition to those in use.
    pub fn check(
        &self,
        shares: &[GpuShare],
        has: impl Fn(&str) -> bool,
    ) -> Result<(), CardConflict> {
        for (i, share) in shares.iter().enumerate() {
            let GpuShare { device, milli } = share;
            if shares[..i].iter().any(|other| other.device == *device) {
                return Err(CardConflict::Twice(Arc::clone(device)));
            }
            if !has(device) {
                return Err(CardConflict::NoSuchCard(Arc::clone(device)));
            }
            if !(1..=WHOLE_CARD).contains(milli) {
                return Err(CardConflict::NoShare {
                    device: Arc::clone(device),
                    milli: *milli,
                });
            }
            let free = self.free(device);
            if *milli > free {
                return Err(CardConflict::Taken {
                    device: Arc::clone(device),
                    wanted: *milli,
                    free,
                });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
