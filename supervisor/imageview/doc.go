// Package imageview shows the images of the runtime as podstead's API lists them, and pulls, loads and removes them for
// its clients.
//
// It owns this form, and who is notified of images that came for no pod. It reads the images and the archives of the
// node. It never decides which image is removed.
package imageview
