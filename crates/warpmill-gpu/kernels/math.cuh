// math
