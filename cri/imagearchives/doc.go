// Package imagearchives keeps the images of the archives in a directory loaded.
//
// It owns the directory's watch, what it knows of each archive, and the file that
// remembers what was loaded. It reads the directory, in which it writes nothing, and loads
// through package imageload. It never removes an image, and the pod path never waits for
// it: Find responds from memory.
//
// An archive is in one of these states:
//
//	Waiting     found; it is read and loaded when it is its turn, or tried again later
//	Incomplete  a process is still writing it
//	Loading     being read or loaded
//	Loaded      the runtime has its images
//	Failed      it is refused, broken, or could not be loaded; the message has the remedy
package imagearchives
