/* prompt.h - threads that sleep most of the time and have to run soon after they wake. */
#ifndef WEIR_DEVICE_COMM_PROMPT_H
#define WEIR_DEVICE_COMM_PROMPT_H

/* Asks the scheduler to wake the calling thread without delay and to let it run before threads that
 * compute, for short times. Needs no privileges; where the system does not offer it, nothing
 * changes. */
void weir_thread_be_prompt(void);

#endif
