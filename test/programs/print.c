/* print.c - a program as text: leaves, operations of each graph, schedule. */
#include <stdio.h>

#include "programs/ops.h"

static void print_desc(const weir_desc *d)
{
    printf("%s", weir_dtype_name(d->dtype));
    for (int i = 0; i < d->ndim; i++)
        printf("%s%lld", i ? "," : "(", (long long)d->dim[i]);
    printf("%s", d->ndim ? ")" : "()");
}

static void print_ref(int ref)
{
    if (ref < 0)
        printf(" L%d", -1 - ref);
    else
        printf(" v%d", ref);
}

static void print_op(const op *o)
{
    int last = MAX_ARG;
    while (last > 0 && o->a[last - 1] == 0)
        last--;
    printf("   ");
    for (int k = 0; k < o->nout; k++) {
        printf(" v%d:", o->out + k);
        print_desc(&o->desc[k]);
    }
    printf("%s %s", o->nout ? " =" : "", op_of(o->kind)->name);
    for (int i = 0; i < o->nin; i++)
        print_ref(o->in[i]);
    for (int i = 0; i < last; i++)
        printf("%s%lld", i ? "," : " a=", (long long)o->a[i]);
    if (o->f[0] != 0)
        printf(" f=%.3f", o->f[0]);
    printf("\n");
}

/* Leaves that an operation or the host still names. */
static bool used(const program *p, int number)
{
    for (int g = 0; g < p->ngraph; g++)
        for (int i = 0; i < p->graph[g].nop; i++)
            for (int k = 0; k < p->graph[g].op[i].nin; k++)
                if (p->graph[g].op[i].in[k] == -1 - number)
                    return true;
    return false;
}

void print_program(const program *p)
{
    static const char *const kind[] = {"param", "input", "state"};
    static const char *const act_name[] = {"run", "write", "rate", "seed"};
    static const char *const optims[] = {"sgd", "adam", "adamw", "adagrad", "rmsprop"};
    printf("  program %llu: %s%s, precision %s\n", (unsigned long long)p->seed,
           weir_dtype_name(p->type), p->smooth ? ", smooth" : "", weir_dtype_name(p->precision));
    for (int i = 0; i < p->nleaf; i++)
        if (used(p, i)) {
            printf("    L%d %s ", i, kind[p->leaf[i].kind]);
            print_desc(&p->leaf[i].desc);
            printf(" %g..%g%s\n", p->leaf[i].lo, p->leaf[i].hi,
                   p->leaf[i].changes ? ", changes" : "");
        }
    for (int i = 0; i < p->nlayer; i++)
        printf("    layer %d: kind %d, %lld, %lld, %lld\n", i, (int)p->layer[i].kind,
               (long long)p->layer[i].a[0], (long long)p->layer[i].a[1],
               (long long)p->layer[i].a[2]);
    for (int i = 0; i < p->noptim; i++)
        printf("    optimiser %d: %s variant %d, rate %.4f, clip %g %g%s\n", i,
               optims[p->optim[i].kind], p->optim[i].variant, p->optim[i].lr,
               p->optim[i].clip_norm, p->optim[i].clip_value, p->optim[i].scaled ? ", scaled" : "");
    for (int g = 0; g < p->ngraph; g++) {
        printf("  graph %d%s\n", g, p->graph[g].eval ? ", evaluation" : "");
        for (int i = 0; i < p->graph[g].nop; i++)
            print_op(&p->graph[g].op[i]);
    }
    printf("  schedule:");
    for (int i = 0; i < p->nact; i++)
        printf(" %s %d%s", act_name[p->act[i].kind], p->act[i].at, p->act[i].last ? "!" : "");
    printf("\n");
}
