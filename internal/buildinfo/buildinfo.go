package buildinfo

import (
	"runtime/debug"
	"time"
)

// version, commit and date are set by the linker (see the Makefile); each may be empty.
var version, commit, date string

// Version returns the linked version, else the one that the Go tool recorded, else "devel".
func Version() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "devel"
}

// Commit returns the commit that the program was built from, and when that was made, in RFC 3339. Both are
// empty if the program was built outside of a git repository.
func Commit() (hash, at string) {
	if commit == "" {
		return recorded("vcs.revision"), recorded("vcs.time")
	}
	return commit, date
}

// Made returns the time of the commit that the program was built from, zero if it is unknown.
func Made() time.Time {
	_, text := Commit()
	at, _ := time.Parse(time.RFC3339, text)
	return at
}

// recorded returns a setting of the build, as go version -m prints it, or "".
func recorded(key string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == key {
				return s.Value
			}
		}
	}
	return ""
}
