/* model.h - how long a sum between ranks takes, from measured ones. */
#ifndef WEIR_DEVICE_COMM_MODEL_H
#define WEIR_DEVICE_COMM_MODEL_H

/* Fits seconds = constant + bytes per_byte to n >= 2 measurements of growing size. */
void weir_fit_sums(const double *bytes, const double *seconds, int n, double *constant,
                   double *per_byte);

#endif
