// The base of both services: the one call of fb303 that is used here.

namespace cpp facebook.fb303

enum fb_status {
  DEAD = 0,
  STARTING = 1,
  ALIVE = 2,
  STOPPING = 3,
  STOPPED = 4,
  WARNING = 5,
}

service FacebookService {
  fb_status getStatus(),
}
