/* checkpoint.c - checkpoints: the bits of plain training, in less memory. */
#include "lab.h"

CASE(nothing)
{
    CHECK(true);
}
