// pch.h: GoogleTest and the standard headers, precompiled once for all test programs.
#pragma once
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/pch.h"
