#include "sim/cuda/kernels/attention.h"
