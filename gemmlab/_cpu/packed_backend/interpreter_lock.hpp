/* A product of Python's runs with or without the interpreter's lock: see `handover.hpp`. */
#pragma once

#include <Python.h>

#include "handover.hpp"
#include "run.hpp"

namespace {

void run_unlocked(const Product &x, const Plan &plan, const Batch &batch) {
    PyThreadState *const here = PyEval_SaveThread();
    run(x, plan, batch);
    PyEval_RestoreThread(here);
}

#ifdef Py_GIL_DISABLED
bool keeps_lock(double) { return false; }
void run_for_python(const Product &x, const Plan &plan, const Batch &batch, double, bool) { run_unlocked(x, plan, batch); }
#else
Handover handover;
bool keeps_lock(double vectors) { return handover.keeps(vectors); }

void run_for_python(const Product &x, const Plan &plan, const Batch &batch, double vectors, bool keeps) {
    const int others = handover.away;
    if (keeps) run(x, plan, batch);
    else {
        handover.away++;
        run_unlocked(x, plan, batch);
        handover.away--;
    }
    if (handover.counts(vectors)) handover.note(vectors, others, clock_ns());
}
#endif

}  // namespace
