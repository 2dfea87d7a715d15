"""Manifests: canonical JSON, the digest, validation, comparison, and a server's own manifest (SPEC 17).

Pure decisions over JSON trees as received, never over typed views of them. Sending and fetching belong to the
host and server runtimes.
"""

from .diff import MemberChange, changed_domains, member_changes
from .digest import (
    is_manifest_revision,
    manifest_canonical_json,
    manifest_digest,
    normalized_manifest,
    ontology_digest,
    sort_set,
    with_revision,
)
from .identifiers import is_identifier
from .impacts import DISPOSITIONS, HostFacts, Impact, ManifestChange, assess_change
from .jcs import canonical_bytes, canonical_json, copy_tree, ecmascript_number
from .tracker import Announcement, ManifestTracker, ManifestTransaction, ManifestUpdate
from .validate import ManifestProblem, ManifestReading, validate_manifest

__all__ = (
    "DISPOSITIONS",
    "Announcement",
    "HostFacts",
    "Impact",
    "ManifestChange",
    "ManifestProblem",
    "ManifestReading",
    "ManifestTracker",
    "ManifestTransaction",
    "ManifestUpdate",
    "MemberChange",
    "assess_change",
    "canonical_bytes",
    "canonical_json",
    "changed_domains",
    "copy_tree",
    "ecmascript_number",
    "is_identifier",
    "is_manifest_revision",
    "manifest_canonical_json",
    "manifest_digest",
    "member_changes",
    "normalized_manifest",
    "ontology_digest",
    "sort_set",
    "validate_manifest",
    "with_revision",
)
