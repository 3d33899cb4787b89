// Package api has the wire types of podstead's own endpoints, those below /podstead/v1: each is declared once, for
// what the daemon's packages answer, what httpapi serves, and what the commands and other programs read. Its
// subpackage client is the client of these endpoints.
//
// It owns the names of the JSON fields, which do not change after a release: the files in testdata have the JSON of
// each endpoint, with each field. It reads nothing, and never imports anything of this project but internal/pod.
package api

// Path is the path below which podstead's own endpoints are.
const Path = "/podstead/v1"
