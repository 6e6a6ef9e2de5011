#include "sim/cuda/kernels/stored.h"
