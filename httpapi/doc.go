// Package httpapi answers over HTTP what runs and why.
//
// It owns one table of routes, each with its access class, and the listeners:
// a unix socket whose file mode is the permission, and a health port on
// loopback that serves the health class only.
//
// What containers printed is read by the package containerlog below it.
//
// It reads the small interfaces that it declares here; it never imports
// the supervisor and never changes anything.
package httpapi
