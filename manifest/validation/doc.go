// Package validation defaults and validates a Pod and the objects that a
// manifest can declare next to it, as the API server does.
//
// It owns the API defaults, the validation rules, the comparison of a decoded
// value with the API's schema, and the table of what this program supports of a
// Pod. It reads only its arguments. It never reads a file, and never knows
// where an object comes from or on which node it will run.
package validation
