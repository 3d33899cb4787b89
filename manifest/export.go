package manifest

// MaxUnitSize bounds a unit in bytes; a larger one is refused.
const MaxUnitSize = maxSize

// IsManifestFile tells by its name whether a file in a folder of manifests is
// read as one: .yaml, .yml and .json are, hidden files and backups are not.
func IsManifestFile(name string) bool { return isManifestName(name) }
