"""Which names and which values are secrets.

The names are those of three maintained tools, the Sentry SDK's `EventScrubber`, Logfire's scrubber
and detect-secrets' keyword detector, and of machine learning's services. The tokens are those of
gitleaks' rules that cannot be mistaken for anything else.
"""

from __future__ import annotations

import re

_OF_KEYS = (
    "access|anthropic|api|auth|aws|azure|clearml|comet(?:_ml)?|decryption|deploy|encryption|gcp|github|gitlab|"
    "google|gpg|hf|hmac|huggingface|jwt|license|mlflow|neptune|openai|pgp|private|priv|rsa|secret|"
    "signing|ssh|ssl|tls|wandb"
)
"""What stands before `key` in a secret's name. Alone, a key is what a mapping is read by."""
_OF_OTHER_KEYS = (
    "account|admin|age|app|client|crypt|database|db|host|master|server|service|session|shared|storage|"
    "subscription|webhook"
)
_OF_TOKENS = (
    "mask|pad|eos|bos|cls|sep|unk|special|start|stop|end|image|action|state|obs|observation|goal|"
    "class|register|extra|added"
)
"""What stands before `token` in the name of a part of a text, or of a sequence."""

_SURE = (
    r"(?:password|passwort|passwd|passphrase|passcode|secret|credential|mnemonic)s?|seed_?phrase|"
    rf"(?:^|_)(?:pwd|creds?|(?:{_OF_KEYS}|refresh)_?(?:key|token)s?)|apikeys?|licence_?key"
)
_LIKELY = (
    rf"tokens?|^session|(?:^|_)(?:{_OF_OTHER_KEYS})_?keys?|"
    r"(?:^|db|user|my|ssh|ftp|mail|smtp|proxy|root|key)_?pass|"
    r"(?:^|_)(?:(?:o_?|basic_?|http_?|proxy_?)?auth|authorization|bearer|(?:set_?)?cookies?|jwt|"
    r"session_?id|(?:csrf|xsrf)|otp|pw|hmac|salt|dsn|sas|conn(?:ection)?_?str(?:ing)?|webhook)"
)
_AFTER = (
    r"(?:_(?:value|val|text|str|string|id|prod|production|dev|test|staging|default|raw|old|new|current|"
    r"main|primary|secondary|header|hash|hashed|encrypted|plain|base|b|v|\d+|for_[a-z]+))*$"
)
"""What may stand after a secret's name. A length, a file or a dimension makes it another thing."""

_SURE_LAST = re.compile(rf"(?:{_SURE}){_AFTER}")
_SURE_ANYWHERE = re.compile(rf"(?:{_SURE})(?![a-z])")
_LIKELY_LAST = re.compile(rf"(?:{_LIKELY}){_AFTER}")
_MANY = re.compile(rf"(?:tokens|cookies){_AFTER}")
_PART_OF_TEXT = re.compile(rf"(?:^|_)(?:{_OF_TOKENS})_tokens?$")
_MAYBE = re.compile(r"(?:^|_)(?:key|keys|token|tokens|auth)(?:_|$)")
_SECTION = re.compile(rf"(?:{_SURE}|(?:^|_)(?:auth|authorization|cookies?)){_AFTER}")
_ABOUT = re.compile(
    r"_(?:file|path|dir|folder|length|len|size|dim|type|kind|name|field|policy|url|uri|mode|method|"
    r"format|count|timeout|ttl|scope|prompt)$"
)
"""Ends of names of what is known of a secret, which is none."""
_REVISION = re.compile(
    r"(?:^|_)(?:sha\d*|commit|hash|digest|revision|rev|ref|version|checksum|id|git|tree|fingerprint)$"
)
_VARIABLE = re.compile(r"[A-Z0-9_]*_KEY")

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_NUMBER = re.compile(r"[+-]?(?:\d[\d_]*\.?\d*|\.\d+)(?:e[+-]?\d+)?", re.IGNORECASE)
_NOTHING = {"", "true", "false", "yes", "no", "on", "off", "null", "none", "~", "(hidden)"}
_RANDOM = re.compile(r"(?=(?:.*?[A-Za-z]\d){3})[\w+/=~.-]{16,}")
"""Letters and digits in turns, which no word has."""
_HEX_40 = re.compile(r"[0-9a-f]{40}")
_DIGITS = 6

TOKEN = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"(?:AKIA|ASIA|ABIA|ACCA|A3T[A-Z0-9])[A-Z0-9]{16}(?![A-Z0-9])|"  # AWS
    r"gh[pousr]_\w{20,}|github_pat_\w{20,}|gl[a-z]{2,5}-[\w-]{20,}|"  # GitHub, GitLab
    r"(?:hf|api_org|r8|gsk|npm|glsa|sntry[su]|dckr_pat|lin_api|wandb_v\d)_[\w-]{20,}|"
    r"(?:sk|xai|pul|pypi|tskey|xox[a-z]|xapp)-[\w-]{16,}|"  # OpenAI, Anthropic, PyPI, Slack
    r"[prs]k_(?:live|test|prod)_\w{10,}|"  # Stripe
    r"AIza[\w-]{35}|ya29\.[\w-]{16,}|GOCSPX-[\w-]{20,}|"  # Google
    r"do[opr]_v1_[0-9a-f]{64}|dapi[0-9a-f]{32}|SG\.[\w-]{16,}\.[\w-]{16,}|SK[0-9a-f]{32}|"
    r"hvs\.[\w-]{20,}|AGE-SECRET-KEY-1\w{20,}|\d{8,10}:AA[\w-]{33}|"  # Vault, age, Telegram
    r"[MNO][\w-]{23,}\.[\w-]{6}\.[\w-]{27,}|"  # Discord
    r"eyJ[\w=+/-]{16,}(?:\.[\w=+/-]*)*|"  # JSON in base64: JWT, Neptune
    r"local-[0-9a-f]{40}|[A-Za-z0-9+/]{86}=="  # wandb, Azure
    r")|(?<=hooks\.slack\.com/services/)[\w/-]+|(?<=/api/webhooks/)\d+/[\w-]+"
)
"""Tokens of known services, anywhere in a text."""

PRIVATE = re.compile(
    r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END [^-]*-----|\Z)", re.DOTALL
)
"""A private key, anywhere in a text."""


def is_secret(name: str, value: object) -> bool:
    """Return whether an option, a flag or a variable with this name has a secret as its value.

    - No, if the value is empty, a truth value or None. Yes, if it is a token of a known service or
      a private key.
    - Yes, if the name ends in a word that is only used for secrets, such as password or api_key;
      text, if there is such a word anywhere in the name, and the end does not say that it is
      something else, as in password_file; text below a section with such a name.
    - If it ends in a word that is mostly used for secrets, such as token: yes for text; for a
      number with six digits or more, but not if there are several, as in max_tokens.
    - Yes for what looks random and is called a key or a token; for 40 hexadecimal digits, as keys
      of wandb have, unless the name says that they are a commit or a checksum.
    """
    if isinstance(value, bytes):
        value = value.decode(errors="replace")
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return False
    text = str(value).strip()
    if text.lower() in _NOTHING:
        return False
    if TOKEN.fullmatch(text) or PRIVATE.fullmatch(text):
        return True
    *above, last = [_spelt(part) for part in name.strip("+-").split(".")]
    if above and last in ("key", "keys"):
        last = f"{above[-1]}_{last}"  # As in wandb.key.
    if last.endswith("pwd") and text.startswith("/"):
        return False  # The working folder.
    if _SURE_LAST.search(last):
        return True
    if _NUMBER.fullmatch(text):
        long = text.isdigit() and len(text) >= _DIGITS
        return long and bool(_LIKELY_LAST.search(last)) and not _MANY.search(last)
    if any(_SECTION.search(part) for part in above):
        return True
    if _LIKELY_LAST.search(last) and not _PART_OF_TEXT.search(last):
        return True
    if _SURE_ANYWHERE.search(last) and not _ABOUT.search(last):
        return True
    if _VARIABLE.fullmatch(name.rpartition(".")[2].strip("+-")):
        return True
    if _RANDOM.fullmatch(text) and _MAYBE.search(last) and not _ABOUT.search(last):
        return True
    return bool(_HEX_40.fullmatch(text)) and not _REVISION.search(last)


def _spelt(name: str) -> str:
    """Return a name in small letters with underscores: `dbPassword` is db_password."""
    return "_".join(_WORD.findall(name)).lower()
