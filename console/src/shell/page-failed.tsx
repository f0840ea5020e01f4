import { useEffect } from 'react'
import { Failed } from '../ui/states.tsx'

const reload = () => location.reload()

/**
 * Shown instead of a page that cannot be loaded or rendered. A retry reloads the document, because a browser may not
 * request the script of a page again; it happens by itself when the connection is back.
 */
export function PageFailed({ error }: { error: unknown }) {
  useEffect(() => {
    addEventListener('online', reload)
    return () => removeEventListener('online', reload)
  }, [])
  // The error of a missing script or a faulty page means nothing to the user.
  const shown = error instanceof TypeError ? new Error('The page could not be loaded or shown.') : error
  return <Failed error={shown} {...(navigator.onLine && { onRetry: reload })} />
}
