// Definitions that newer C++ libraries export and older systems lack: with them the shim is loaded where glibc is 2.28, whatever compiled it.
#include <new>

// Whether a process has one thread only: "no" costs an atomic instruction per copy of a shared pointer (glibc 2.32).
extern "C" __attribute__((visibility("hidden"))) char __libc_single_threaded = 0;

namespace std {
// The error of `new T[n]` for lengths that are too large (libstdc++ of GCC 11).
void __throw_bad_array_new_length() {
	throw bad_array_new_length();
}
} // namespace std

// The namespace is declared as visible, which an attribute does not change.
__asm__(".hidden _ZSt28__throw_bad_array_new_lengthv");
