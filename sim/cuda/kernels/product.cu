#include "sim/cuda/kernels/product.h"
