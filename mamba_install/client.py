"""Requests with timeouts, retries and one clear message per way in which a network fails."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Callable, Iterator, NamedTuple, Optional

from mamba_install import __version__
from mamba_install.errors import NetworkError

if TYPE_CHECKING:
    import requests

ACCEPT = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.3, text/html;q=0.2, */*;q=0.1"
PAGE_BYTES = 64 * 1024 * 1024


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
        with self.open(url, accept=ACCEPT) as response:
            if response.status_code in (404, 410):
                return None
            return self._page(response)

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

        content = b""
        try:
            for chunk in response.iter_content(1 << 16):
                content += chunk
                if len(content) > PAGE_BYTES:
                    raise NetworkError(f"the index page is larger than {PAGE_BYTES >> 20} MB: `{response.url}`")
        except requests.RequestException as error:
            raise NetworkError(
                f"the connection broke while a page was read: `{response.url}` ({_short(error)})"
            ) from error
        kind = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        return Page(response.url, kind, content.decode("utf-8", "replace"))

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
