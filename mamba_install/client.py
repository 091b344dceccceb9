"""Requests with timeouts, retries and one clear message per way in which a network fails."""

from __future__ import annotations

import queue
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Callable, Generator, Iterator, NamedTuple, Optional, Tuple, TypeVar

from mamba_install import __version__
from mamba_install.errors import NetworkError

if TYPE_CHECKING:
    import requests

ACCEPT = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.3, text/html;q=0.2, */*;q=0.1"
# decoded: a page that grows when it is unpacked is cut off here too
PAGE_BYTES = 16 * 1024 * 1024
# the whole of one page, every attempt included: a timeout per read never ends a server that sends a byte a second
PAGE_SECONDS = 120.0
# a wheel that brings less than this in this time (1 kB/s) is given up
SLOW_BYTES = 60_000
SLOW_SECONDS = 60.0
# read from the network at a time: small enough that a slow transfer is seen to move
WIRE_CHUNK = 1 << 14

T = TypeVar("T")
# the size of the whole where it is known, and a piece
Sized = Tuple[Optional[int], bytes]


class Page(NamedTuple):
    """The answer to a request for an index page."""

    url: str
    content_type: str
    text: str


@dataclass
class Client:
    """One session with retries: 5xx, 429 and timeouts are tried again after a growing pause, everything else is final."""

    attempts: int = 3
    pause: float = 0.5
    connect_timeout: float = 10.0
    read_timeout: float = 30.0
    page_seconds: float = PAGE_SECONDS
    slow_seconds: float = SLOW_SECONDS
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    log: Callable[[str], None] = lambda text: None
    _session: Optional[requests.Session] = None

    @property
    def session(self) -> requests.Session:
        if self._session is None:
            import requests  # a tenth of a second that an index on disk never needs

            self._session = requests.Session()
            self._session.headers["User-Agent"] = f"mamba-install/{__version__}"
        return self._session

    def find_page(self, url: str) -> Optional[Page]:
        """A page, or None where the server says that there is none."""

        def read() -> Iterator[Optional[Page]]:
            with self.open(url, accept=ACCEPT) as response:
                yield None if response.status_code in (404, 410) else self._page(response)

        try:
            return next(in_background(read(), lambda: self.page_seconds))
        except queue.Empty:
            raise NetworkError(
                f"the index page did not arrive within {self.page_seconds:g} s: `{url}`",
                "the server or the connection is too slow: try later, or give a nearer mirror with `--index`",
            ) from None

    def get_page(self, url: str) -> Page:
        """A page that must be there."""
        page = self.find_page(url)
        if page is None:
            raise NetworkError(
                f"no index at this address: `{url}` (404 Not Found)",
                "check the address given by `--index` or MAMBA_INSTALL_INDEX",
            )
        return page

    def _page(self, response: requests.Response) -> Page:
        import requests

        content = bytearray()
        try:
            for chunk in response.iter_content(WIRE_CHUNK):
                content += chunk
                if len(content) > PAGE_BYTES:
                    raise NetworkError(
                        f"the index page is larger than {PAGE_BYTES >> 20} MB: `{response.url}`",
                        "give the address of one channel or of the package's own page with `--index`",
                    )
        except requests.RequestException as error:
            raise NetworkError(
                f"the connection broke while a page was read: `{response.url}` ({_short(error)})"
            ) from error
        kind = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        return Page(response.url, kind, content.decode("utf-8", "replace"))

    def steady(self, items: Iterator[Sized], url: str) -> Generator[Sized, None, None]:
        """Pass a download on as long as it moves; one slower than SLOW_BYTES in `slow_seconds` is a NetworkError."""
        # the first item comes when the server has answered, for which the attempts take their time
        until, got = self.clock() + self.page_seconds, 0

        def moved() -> bool:
            nonlocal until, got
            enough = got >= SLOW_BYTES
            until, got = self.clock() + self.slow_seconds, 0
            return enough

        source = in_background(items, lambda: max(0.0, until - self.clock()), moved)
        try:
            for item in source:
                got += len(item[1])
                if not item[1]:
                    moved()
                elif self.clock() >= until and not moved():
                    raise queue.Empty
                yield item
        except queue.Empty:
            raise NetworkError(
                f"the download is too slow, or stands still: `{url}` (under {SLOW_BYTES} bytes in {self.slow_seconds:g} s)",
                "run the same command again later, or give a nearer mirror with `--index`; nothing was kept",
            ) from None
        finally:
            source.close()

    @contextmanager
    def open(self, url: str, accept: str = "*/*") -> Iterator[requests.Response]:
        """A streaming response with status 200, 404 or 410; anything else is a NetworkError."""
        response = self._request(url, accept)
        try:
            yield response
        finally:
            response.close()

    def _request(self, url: str, accept: str) -> requests.Response:
        import requests

        for attempt in range(1, self.attempts + 1):
            last = attempt == self.attempts
            try:
                response = self.session.get(
                    url, headers={"Accept": accept}, timeout=(self.connect_timeout, self.read_timeout), stream=True
                )
            except requests.Timeout as error:
                if last:
                    raise NetworkError(
                        f"no answer in time, {attempt} attempts: `{url}`",
                        "check the connection and the proxy (HTTPS_PROXY), or give a nearer mirror with `--index`",
                    ) from error
                trouble = "no answer in time"
            except requests.RequestException as error:
                raise _unreachable(url, error) from error
            else:
                status = response.status_code
                if status in (200, 404, 410):
                    return response
                reason = f"{status} {response.reason}"
                response.close()
                if last or not (status >= 500 or status == 429):
                    raise _refused(url, status, reason, attempt)
                trouble = reason
            seconds = self.pause * 2 ** (attempt - 1)
            self.log(f"{trouble}: `{url}`; once more in {seconds:.1f} s")
            self.sleep(seconds)
        raise AssertionError("the last attempt returns or raises")


def in_background(
    items: Iterator[T], seconds: Callable[[], float], go_on: Callable[[], bool] = lambda: False
) -> Generator[T, None, None]:
    """Pass on what another thread reads; queue.Empty where nothing comes for so many seconds and `go_on` says no.

    A blocking read cannot be interrupted, and its file cannot be closed from here without waiting for it. So the thread
    that reads also opens and closes, and one that hangs is left behind: it is a daemon, and ends with the process.
    """
    ready: queue.Queue[Tuple[Optional[T], Optional[BaseException], bool]] = queue.Queue(maxsize=8)
    stopped = threading.Event()

    def read() -> None:
        try:
            for item in items:
                ready.put((item, None, False))
                if stopped.is_set():
                    break
            close = getattr(items, "close", None)
            if close is not None:
                close()
            ready.put((None, None, True))
        except BaseException as error:  # noqa: BLE001 - every kind is raised again where somebody waits
            ready.put((None, error, True))

    threading.Thread(target=read, daemon=True).start()
    try:
        while True:
            try:
                value, error, ended = ready.get(timeout=seconds())
            except queue.Empty:
                if not go_on():
                    raise
                continue
            if error is not None:
                raise error
            if ended:
                return
            yield value  # type: ignore[misc]
    finally:
        stopped.set()
        with suppress(queue.Empty):  # a reader that waits for room goes on, and sees that it shall stop
            while True:
                ready.get_nowait()


def _unreachable(url: str, error: Exception) -> NetworkError:
    text = str(error)
    if "refused" in text.lower():
        why, hint = "connection refused", "nothing listens there: check host and port, or the proxy (HTTPS_PROXY)"
    elif "CERTIFICATE" in text.upper() or "SSL" in type(error).__name__:
        why, hint = (
            "certificate not accepted",
            "a proxy may re-sign traffic: name its certificate in REQUESTS_CA_BUNDLE",
        )
    elif "resolve" in text.lower() or "name or service" in text.lower():
        why, hint = "the host's name is not known", "check the spelling of the address, and DNS"
    else:
        why, hint = _short(error), "check the address and the connection, or give a folder of wheels with `--index`"
    return NetworkError(f"the server cannot be reached: `{url}` ({why})", hint)


def _refused(url: str, status: int, reason: str, attempts: int) -> NetworkError:
    if status >= 500:
        return NetworkError(
            f"the server failed, {attempts} attempts: `{url}` ({reason})", "try later, or give a mirror with `--index`"
        )
    if status in (401, 403):
        return NetworkError(
            f"the server refuses access: `{url}` ({reason})", "put the credentials into ~/.netrc, or use another index"
        )
    return NetworkError(f"the server does not serve this: `{url}` ({reason})", "check the address given by `--index`")


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
