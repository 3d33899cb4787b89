package main

import (
	"runtime"
	"runtime/debug"

	"github.com/podstead/podstead/cmd/podstead/cli"
	"github.com/podstead/podstead/internal/kubeversion"
)

// version, commit and date are set by the linker (see the Makefile); each may be empty.
var version, commit, date string

// criVersion is the version of the Container Runtime Interface that package cri speaks.
const criVersion = "v1"

// programVersion returns what is known about this program: what was linked, else what the Go
// tool recorded.
func programVersion() cli.Version {
	v := cli.Version{
		Version: versionNumber(), Commit: commit, Date: date,
		GoVersion: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		KubernetesVersion: kubeversion.Release, CRIVersion: criVersion,
	}
	if commit == "" {
		v.Commit, v.Date = recorded("vcs.revision"), recorded("vcs.time")
	}
	return v
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

// versionText returns the name and version of this program for the log.
func versionText() string { return "podstead " + versionNumber() }

// versionNumber returns the linked version, else the one that the Go tool recorded.
func versionNumber() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "devel"
}
