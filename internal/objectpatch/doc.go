// Package objectpatch applies the patches of the Kubernetes API to decoded objects: JSON
// patches, merge patches and strategic merge patches. It also transfers what differs between two
// versions of an object to the document that declares it, so that the defaults which a client has
// seen are not written into the document.
//
// It owns no state and reads nothing but its arguments, and the merge keys of the API types. It
// never changes an argument, and never validates an object.
package objectpatch
