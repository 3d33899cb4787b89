// Package pullrecords records with which credentials the images of the runtime were
// pulled, and decides by that whether a pod may use an image that is present.
//
// It owns two directories. "pulled" has one file for each image that this node pulled:
// the repositories it was pulled from and, for each, either that everyone may use it (it
// was pulled without a login, or with a login of the node) or the Secrets whose login
// the registry accepted. "intents" has one file for each pull in progress, which is
// written before the pull. An image without either was preloaded. So a daemon that is
// killed between the end of a pull and its record does not make an image look preloaded:
// the next one finds the intent, and records the pull as one with unknown credentials,
// which every pod has to repeat with its own.
//
// A file contains no login, only a salted hash of it. A file that cannot be read counts as
// a pull with unknown credentials; a missing one, as of a version without records, as a
// preloaded image. A file that cannot be written is kept in memory and written later.
//
// The package never pulls and never removes an image.
package pullrecords
