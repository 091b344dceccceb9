"""What a missing C++ symbol says: its readable name, and which torch builds have or had it.

The ranges were read from real torch libraries. Mangling: https://itanium-cxx-abi.github.io/cxx-abi/abi.html#mangling
"""

from __future__ import annotations

import re
from typing import NamedTuple, Optional, Tuple


class SymbolHint(NamedTuple):
    """A row of the table: who asks for such a symbol, and who lacks it."""

    pattern: str
    built_with: str
    lacking_in: str


# the first row that matches is told; these are changes of torch's own interface, whatever the C++ ABI
TORCH_SYMBOLS: Tuple[SymbolHint, ...] = (
    SymbolHint(r"c104cuda9SetDeviceEab|cuda::SetDevice\(signed char, bool\)", "torch >= 2.8", "torch <= 2.7"),
    SymbolHint(r"c104cuda9SetDeviceEa(?!b)|cuda::SetDevice\(signed char\)", "torch 2.3 to 2.7", "torch >= 2.8"),
    SymbolHint(r"c104cuda9SetDeviceEi|cuda::SetDevice\(int\)", "torch 2.1 or 2.2", "torch >= 2.3, and torch < 2.1"),
    SymbolHint(r"_ZNK?[\w.]*?N?S\d?_8optionalI|_ZN[\w.]*c108optionalI|c10::optional<", "torch <= 2.1", "torch >= 2.2"),
    SymbolHint(
        r"_ZNK?[\w.]*?St8optionalI|(?:at|c10|torch)::[^\n]*std::optional<",
        "torch >= 2.2",
        "torch <= 2.1 and early pre-releases of 2.2",
    ),
    SymbolHint(
        r"c104impl3cow23materialize_cow_storage|impl::cow::materialize_cow_storage", "torch <= 2.12", "torch >= 2.13"
    ),
    SymbolHint(r"throw_data_ptr_access_error", "torch 2.6 or newer", "torch <= 2.5"),
    SymbolHint(r"_ZNR?5torch7Library4_defE\w*RegisterOrVerify", "torch 2.4 to 2.11", "torch >= 2.13"),
)
# `std::string` before the change of the C++11 ABI and after it, in mangled and in demangled spelling
OLD_STRING = re.compile(r"_Z(?!\S*__cxx11)\w*?(?:E|K|P|R|O)Ss(?:[A-Za-z0-9_]|\b)|^(?!.*__cxx11).*\bstd::string\b")
NEW_STRING = re.compile(r"NSt7__cxx11|std::__cxx11::")


def torch_hint(symbol: str) -> Optional[SymbolHint]:
    """The row of the table that a symbol belongs to."""
    return next((hint for hint in TORCH_SYMBOLS if re.search(hint.pattern, symbol)), None)


def needed_abi(symbol: str) -> Optional[bool]:
    """The C++11 ABI that whoever asks for this symbol was built with; None where no string is in its signature."""
    if NEW_STRING.search(symbol):
        return True
    return False if OLD_STRING.search(symbol) else None


def readable(symbol: str) -> str:
    """`_ZN3c104cuda9SetDeviceEab` -> `c10::cuda::SetDevice`: the name only; what is no mangled name is left as it is."""
    match = re.match(r"_ZN[KRO]{0,2}((?:\d{1,3}[A-Za-z_~].*)?)", symbol) or re.match(r"_Z(\d{1,3}[A-Za-z_].*)", symbol)
    if not match:
        return symbol
    rest, parts = match[1], []
    while True:
        length = re.match(r"\d{1,3}", rest)
        if not length:
            break
        end = length.end() + int(length[0])
        if end > len(rest):
            break
        parts.append(rest[length.end() : end])
        rest = rest[end:]
    if parts and re.match(r"[CD][1-3]E", rest):
        parts.append(parts[-1] if rest[0] == "C" else f"~{parts[-1]}")
    return "::".join(parts) if parts else symbol
