/* weir.h - the whole public interface of Weir; include this one header.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_H
#define WEIR_H

#include "weir/base.h"
#include "weir/callback.h"
#include "weir/comm.h"
#include "weir/data.h"
#include "weir/device.h"
#include "weir/file.h"
#include "weir/graph.h"
#include "weir/layer.h"
#include "weir/model.h"
#include "weir/onnx.h"
#include "weir/op.h"
#include "weir/plan.h"
#include "weir/saved.h"
#include "weir/tensor.h"

#endif
