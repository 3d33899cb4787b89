// Package access authenticates and authorizes the callers of the HTTP API.
//
// It owns the access classes of routes, the roles, which are sets of classes, and the
// caller of a request. It reads the credentials of a request, the token and CA files, and
// the reviews of a cluster. It never serves a request itself.
package access
