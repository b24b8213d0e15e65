/* model.h - the processor's name for itself. */
#ifndef WEIR_DEVICE_CPU_MODEL_H
#define WEIR_DEVICE_CPU_MODEL_H

enum { WEIR_CPU_MODEL = 49 };

/* Writes the name; "" where it is not known. */
void weir_cpu_model(char name[WEIR_CPU_MODEL]);

#endif
