"""Files, progress, serialisation and version: what does not depend on the subject of the project."""
