// Package apistatus writes the error responses of the HTTP API.
//
// It owns their form: a Status with details for clients of the Kubernetes API and of
// /podstead/v1, text for the kubelet's endpoints, whose errors an API server passes on to its
// own clients as text.
//
// It reads the path of the request, which names the object that the details report. It never
// decides whether a request fails.
package apistatus
