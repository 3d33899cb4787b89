// Package daemon assembles podstead: it creates the packages of the daemon in the order in which data flows
// through them, in named phases, and runs what they start.
//
// It owns the phases and the adapters between packages that do not know each other. It reads the settings
// of package config. It never decides anything about a pod, and nothing but cmd/podstead imports it.
package daemon
