import { useEffect } from 'react'
import { Failed } from '../ui/states.tsx'

const reload = () => location.reload()

/**
 * Shown instead of a page that cannot be loaded or rendered. Reloads the document when the user retries or the
 * connection is restored, because a browser may not request a failed script again.
 */
export function PageFailed({ error }: { error: unknown }) {
  useEffect(() => {
    addEventListener('online', reload)
    return () => removeEventListener('online', reload)
  }, [])
  // A TypeError comes from a script that is missing or a bug in the page, so its message would not help the user.
  const shown = error instanceof TypeError ? new Error('The page could not be loaded or shown.') : error
  return <Failed error={shown} {...(navigator.onLine && { onRetry: reload })} />
}
