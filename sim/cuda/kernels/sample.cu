#include "sim/cuda/kernels/elementwise.h"
