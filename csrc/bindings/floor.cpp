// Keeps a binding loadable on old systems although it is linked on a new one: what stands here would otherwise be taken
// from glibc 2.32 and from the libstdc++ of gcc 9 and 11. Linked into every binding; exports.map hides it.
#include <sstream>

extern "C" {
// Read by std::shared_ptr to decide whether to count atomically: 0 says always, which is right in any process.
extern char __libc_single_threaded;
__attribute__((visibility("hidden"))) char __libc_single_threaded = 0;
}

// Their default constructors moved into the library late; this puts a copy of them here.
template class std::basic_stringstream<char>;
template class std::basic_ostringstream<char>;
