// Package compose turns Compose files into pods: one for each service, of the service's name, with
// the claims, ConfigMaps and Secrets that it needs.
//
// It owns the reading of Compose files (variables, .env, extends, include, several files), and what
// each field becomes. It reads documents that the package manifest has decoded, and the files that
// they name, through a podbuild.Host. It never validates the result: the caller does.
//
// The reference implementation, compose-go, is not used: it forgets the lines of what it reads, adds
// 1.9 MB to the program, and needs 6 ms and 1.7 MB of memory at each start, also of the daemon.
package compose
