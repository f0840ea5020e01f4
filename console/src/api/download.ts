import { useState } from 'react'
import { type Session, useSession } from '../session/session.ts'
import { saveFile } from '../ui/save.ts'
import { messageOf } from '../ui/states.tsx'
import { toast } from '../ui/toast.tsx'
import { ApiError, apiUrl, authorizedFetch } from './client.ts'

/**
 * Downloads a file as the logged-in user. The browser saves it under the name in Content-Disposition or, without one,
 * under `name`. Rejects with an `ApiError` for an error response.
 */
async function download(session: Session, path: string, name: string, signal: AbortSignal): Promise<void> {
  const response = await authorizedFetch(session)(new Request(apiUrl(path), { signal }))
  if (!response.ok) {
    const body: unknown = await response.json().catch(() => ({}))
    throw new ApiError(response, typeof body === 'object' && body !== null ? body : {})
  }
  const [, given = name] = /filename="([^"]+)"/.exec(response.headers.get('content-disposition') ?? '') ?? []
  saveFile(await response.blob(), given)
}

/**
 * Returns `download`, which downloads a file and shows the outcome, and `active`, the path of the download in progress
 * or null.
 */
export function useDownload() {
  const session = useSession()
  const [active, setActive] = useState<string | null>(null)
  const start = async (path: string, name: string) => {
    const stopping = new AbortController()
    setActive(path)
    const close = toast(`Downloading ${name} …`, { label: 'Cancel', run: () => stopping.abort() }, 600_000)
    try {
      await download(session, path, name, stopping.signal)
      toast(`Downloaded ${name}`)
    } catch (error) {
      toast(stopping.signal.aborted ? 'Download canceled' : `${name} was not downloaded. ${messageOf(error)}`)
    } finally {
      close()
      setActive(null)
    }
  }
  return { download: start, active }
}
