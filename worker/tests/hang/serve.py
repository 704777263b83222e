"""Mounts a file system on the folder of the first argument. Its file `f` answers no read, so that the pages of the first one stay locked."""
import ctypes, os, struct, sys

INIT, LOOKUP, GETATTR, OPEN, READ = 26, 1, 3, 14, 15
KEEP_CACHE, DIRECT_IO = 2, 1
HOUR = 3600
FILE = 2

folder = sys.argv[1]
device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
options = f"fd={device},rootmode=40000,user_id=0,group_id=0"
libc = ctypes.CDLL(None, use_errno=True)
if libc.mount(b"hang", folder.encode(), b"fuse", 0, options.encode()) != 0:
    sys.exit(f"mount: {os.strerror(ctypes.get_errno())}")
if os.fork() == 0:
    os.close(device)
    try:
        os.read(os.open(folder + "/f", os.O_RDONLY), 1)
    finally:
        # The server has ended.
        os._exit(0)
attributes = struct.pack("=6Q10I", FILE, 4096, 8, *[0] * 6, 0o100444, 1, *[0] * 3, 4096, 0)
opened = KEEP_CACHE
while True:
    request = os.read(device, 1 << 18)
    _, kind, unique = struct.unpack_from("=IIQ", request)
    if kind == INIT:
        answer = struct.pack("=16I", 7, 31, *[0] * 3, 4096, 1, *[0] * 9)
    elif kind == LOOKUP:
        answer = struct.pack("=4QII", FILE, 0, HOUR, HOUR, 0, 0) + attributes
    elif kind == GETATTR:
        answer = struct.pack("=QII", HOUR, 0, 0) + attributes
    elif kind == OPEN:
        answer = struct.pack("=QII", 0, opened, 0)
        # A mapping of a file that is opened like this drops the cached pages: it waits for them with the memory lock of its process held.
        opened = KEEP_CACHE | DIRECT_IO
    else:
        if kind == READ:
            print("hangs", flush=True)
        continue
    os.write(device, struct.pack("=IiQ", 16 + len(answer), 0, unique) + answer)
