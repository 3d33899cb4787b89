// Package claims is the resource claims of pods (dynamic resource allocation) in the list of what a pod
// needs of its node.
//
// It owns when the claims of a pod are prepared and given back, and the reason of a pod that waits for
// them. It reads the claims through the interface that it declares, and never knows a driver or an API
// server.
package claims
