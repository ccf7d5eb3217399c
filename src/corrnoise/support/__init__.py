"""The ground floor: files, progress, serialisation, version.  Nothing here knows the subject of the project."""
