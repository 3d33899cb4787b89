// Package docker parses the values that Compose files and Quadlet units share with the command
// line of docker: ports, volumes, sizes, durations, words, users.
//
// It owns their syntax. It reads nothing but its arguments. It never reports what a value becomes in
// a pod.
package docker
