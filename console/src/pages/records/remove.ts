import { useSession } from '../../session/session.ts'
import { messageOf } from '../../ui/states.tsx'
import { toast } from '../../ui/toast.tsx'
import { useCache } from './cache.ts'
import { allows, ifMatch, readRow, type Send, useSend } from './data.ts'
import type { Resource } from './model.ts'

/** How long the person can undo a deletion before the request is sent, if the service does not keep deleted rows. */
const undoMs = 6_000

/** Deletes a row if it still has this entity tag; by default, the current one. */
export async function removeRow(send: Send, resource: Resource, id: string | number, etag?: string | null) {
  const seen = etag === undefined ? (await readRow(send, resource, id)).etag : etag
  await send('DELETE', `${resource.path}/${encodeURIComponent(id)}`, { headers: ifMatch(seen) })
}

/** Restores a deleted row. */
export const restoreRow = (send: Send, { name }: Pick<Resource, 'name'>, id: string | number) =>
  send('POST', `/api/deleted/${name}/${encodeURIComponent(id)}/restore`)

/**
 * Returns the function that deletes a row and offers to undo that. If the service keeps deleted rows, the row is deleted at
 * once, and restored if the person wants it back. Otherwise, the request is sent when the offer ends.
 */
export function useRemoval(resource: Resource) {
  const { name, noun, can } = resource
  const session = useSession()
  const send = useSend()
  const cache = useCache(name)
  const failed = async (error: unknown) => {
    toast(`Deleting the ${noun} did not work: ${messageOf(error)}`)
    await cache.reset()
  }
  const undo = (id: string | number) =>
    restoreRow(send, resource, id).then(cache.reset, (error: unknown) => void toast(messageOf(error)))
  const delayed = async (id: string | number, etag?: string | null) => {
    const seen = etag === undefined ? (await readRow(send, resource, id)).etag : etag
    cache.hide(id)
    const timer = setTimeout(() => void removeRow(send, resource, id, seen).catch(failed), undoMs)
    const keep = () => {
      clearTimeout(timer)
      void cache.reset()
    }
    toast(`Deleting ${noun} #${id}`, { label: 'Undo', run: keep }, undoMs)
  }
  return async (id: string | number, etag?: string | null): Promise<void> => {
    if (!allows(session, can.restore)) return delayed(id, etag)
    await removeRow(send, resource, id, etag)
    cache.hide(id)
    toast(`Deleted ${noun} #${id}`, { label: 'Undo', run: () => void undo(id) })
  }
}
