package daemon

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cri/imagestore"
)

// reasonIncompleteImage is the reason of the event for an image that was removed because it was not complete.
const reasonIncompleteImage = "IncompleteImageRemoved"

// startImageStore starts what removes the images that were not complete when the machine went down.
func (d *daemon) startImageStore() {
	d.images.OnRemoved(func(r imagestore.Removal) {
		d.observers.counters.IncompleteImageRemoved()
		d.observers.events.Event(nil, v1.EventTypeWarning, reasonIncompleteImage, fmt.Sprintf("Removed image %q (%s): the "+
			"machine went down while it was pulled or loaded. It comes again from its registry or image archive when a pod "+
			"needs it; without either, load it with: podstead images load ARCHIVE", r.Name, r.ID))
	})
	d.start(d.images.Run)
}
