import { useState } from 'react'
import { type Session, useSession } from '../session/session.ts'
import { messageOf } from '../ui/states.tsx'
import { toast } from '../ui/toast.tsx'
import { ApiError, apiUrl, authorizedFetch } from './client.ts'

/**
 * Downloads a file as the logged-in person, and lets the browser save it under the name in Content-Disposition, or else under
 * `name`. Rejects with an `ApiError` if it is refused.
 */
async function saveFile(session: Session, path: string, name: string): Promise<void> {
  const response = await authorizedFetch(session)(new Request(apiUrl(path)))
  if (!response.ok) {
    const body: unknown = await response.json().catch(() => ({}))
    throw new ApiError(response, typeof body === 'object' && body !== null ? body : {})
  }
  const [, given = name] = /filename="([^"]+)"/.exec(response.headers.get('content-disposition') ?? '') ?? []
  const url = URL.createObjectURL(await response.blob())
  const link = Object.assign(document.createElement('a'), { href: url, download: given })
  link.click()
  URL.revokeObjectURL(url)
}

/** Returns a function that downloads a file and shows how it went, and the path of the download in progress. */
export function useDownload() {
  const session = useSession()
  const [active, setActive] = useState<string | null>(null)
  const download = async (path: string, name: string) => {
    setActive(path)
    const close = toast(`Downloading ${name} …`, undefined, 600_000)
    try {
      await saveFile(session, path, name)
      toast(`Downloaded ${name}`)
    } catch (error) {
      toast(`${name} was not downloaded. ${messageOf(error)}`)
    } finally {
      close()
      setActive(null)
    }
  }
  return { download, active }
}
