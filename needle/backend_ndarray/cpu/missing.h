#pragma once
namespace needle {
struct Missing {};
}  // namespace needle
