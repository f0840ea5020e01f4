import { isOutdated } from '../../api/client.ts'
import { useSession } from '../../session/session.ts'
import { messageOf } from '../../ui/states.tsx'
import { toast } from '../../ui/toast.tsx'
import { useCache } from './cache.ts'
import { allows, ifMatch, readRow, type Send, useSend } from './data.ts'
import type { Resource } from './model.ts'

/**
 * Deletes a row if it still has the given entity tag, by default its current one. If `etag` is null, deletes it
 * unconditionally.
 */
export async function removeRow(send: Send, resource: Resource, id: string | number, etag?: string | null) {
  const seen = etag === undefined ? (await readRow(send, resource, id)).etag : etag
  await send('DELETE', `${resource.path}/${encodeURIComponent(id)}`, { headers: ifMatch(seen) })
}

/** Restores a deleted row. */
export const restoreRow = (send: Send, { name }: Pick<Resource, 'name'>, id: string | number) =>
  send('POST', `/api/deleted/${name}/${encodeURIComponent(id)}/restore`)

/**
 * Returns a function that deletes a row with If-Match, and offers to undo the deletion. If the user may restore deleted
 * rows, it deletes the row at once, and undo restores the row. Otherwise, it sends the request only when the message
 * with the undo button disappears; if the page is closed before that, the row is not deleted.
 */
export function useRemoval(resource: Resource) {
  const { name, noun, can } = resource
  const session = useSession()
  const send = useSend()
  const cache = useCache(name)
  const failed = (error: unknown) => {
    toast(isOutdated(error) ? outdated(noun) : `The ${noun} was not deleted: ${messageOf(error)}`)
    return cache.reset()
  }
  const undo = (id: string | number) =>
    restoreRow(send, resource, id).then(cache.reset, (error: unknown) => void toast(messageOf(error)))
  const delayed = (id: string | number, etag: string | null) => {
    cache.hide(id)
    toast(`Deleting ${noun} #${id}`, {
      label: 'Undo',
      run: () => void cache.reset(),
      // Hide the row again, because a list may have been read in the meantime.
      otherwise: () => void removeRow(send, resource, id, etag).then(() => cache.hide(id), failed),
    })
  }
  /** Resolves to true if the row has been deleted, or will be deleted unless the user undoes it. */
  return async (id: string | number, etag: string | null): Promise<boolean> => {
    if (!allows(session, can.restore)) {
      delayed(id, etag)
      return true
    }
    try {
      await removeRow(send, resource, id, etag)
    } catch (error) {
      await failed(error)
      return false
    }
    cache.hide(id)
    toast(`Deleted ${noun} #${id}`, { label: 'Undo', run: () => void undo(id) })
    return true
  }
}

const outdated = (noun: string) =>
  `Someone else has changed this ${noun} meanwhile. Look at it again before you delete it.`
