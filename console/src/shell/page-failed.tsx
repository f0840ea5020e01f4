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
  return <Failed error={error} {...(navigator.onLine && { onRetry: reload })} />
}
