"""Whether an ID token is proof: signed by the provider, for us, for this login, and not too old; by joserfc.

Only signatures by a private key count: one that is made with the client's secret, or none at all, anybody could make
who has that secret, or nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from shoal.errors import NotAllowed
from shoal.lazy.classes import dataclass

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
LEEWAY = 60  # seconds that clocks may differ


class UnknownKey(NotAllowed):
    """It is signed with a key that is not among those known of the provider, which may have new ones."""


@dataclass(frozen=True)
class VouchedPerson:
    """Somebody whom the provider vouches for. `email` is empty where it does not say that the address is theirs."""

    subject: str  # the issuer, and who they are there
    email: str = ""
    token: str = field(default="", repr=False)  # its word, which it asks for when they log out


def proven(token: str, keys: Mapping[str, Any], metadata: Mapping[str, Any], client: str, nonce: str) -> dict[str, Any]:
    """What it claims; NotAllowed, with what is wrong, where that is not proven."""
    from joserfc import jwt
    from joserfc.errors import BadSignatureError, InvalidKeyIdError, JoseError
    from joserfc.jwk import KeySet

    rules = jwt.JWTClaimsRegistry(
        leeway=LEEWAY, iss={"essential": True, "value": metadata["issuer"]}, aud={"essential": True, "value": client},
        nonce={"essential": True, "value": nonce}, sub={"essential": True}, exp={"essential": True},
        iat={"essential": True},
    )  # fmt: skip
    try:
        found = jwt.decode(token, KeySet.import_key_set({"keys": _signing(keys)}), algorithms=list(ALGORITHMS)).claims
        rules.validate(found)
    except (InvalidKeyIdError, BadSignatureError):  # the latter where keys have no names
        raise UnknownKey(_unproven("its signature is by none of the provider's keys")) from None
    except (JoseError, ValueError, TypeError, KeyError) as error:
        raise NotAllowed(_unproven(str(error) or type(error).__name__)) from None
    audience, party = found["aud"], found.get("azp", client)
    if party != client or (isinstance(audience, list) and len(audience) > 1 and "azp" not in found):
        raise NotAllowed(_unproven("it was made for another program"))
    if not isinstance(found["nonce"], str) or not found["sub"]:
        raise NotAllowed(_unproven("it says nothing of whom it is for"))
    return found


def _signing(keys: Mapping[str, Any]) -> list[Any]:
    """Keys that tokens may be signed with: those with a public half."""
    found = keys.get("keys")
    asymmetric = [key for key in found if isinstance(key, dict)] if isinstance(found, list) else []
    return [key for key in asymmetric if key.get("kty") in ("RSA", "EC", "OKP") and key.get("use", "sig") == "sig"]


def _unproven(why: str) -> str:
    return f"The provider's word does not prove who you are: {why[:200]}. Log in again; if it stays so, tell an admin."


def arrival_of(claims: Mapping[str, Any]) -> VouchedPerson:
    email = claims.get("email")
    said = claims.get("email_verified")
    verified = said is True or said == "true"  # some providers write it as a text
    # No lower case of another alphabet: of the Kelvin sign it would be our k, and so perhaps somebody else's address.
    known = isinstance(email, str) and verified and email.isascii()
    return VouchedPerson(f"{claims['iss']} {claims['sub']}", str(email).strip().lower() if known else "")
