import { Text } from 'react-aria-components/Text'
import {
  UNSTABLE_Toast as Toast,
  UNSTABLE_ToastContent as ToastContent,
  UNSTABLE_ToastQueue as ToastQueue,
  UNSTABLE_ToastRegion as ToastRegion,
} from 'react-aria-components/Toast'
import { Button } from './button.tsx'

interface Message {
  text: string
  action?: { label: string; run: () => void } | undefined
}

const visibleMs = 6_000
const queue = new ToastQueue<Message>({ maxVisibleToasts: 3 })

/** Shows a message for some seconds, with an optional action such as "Undo". Returns a function that removes it. */
export function toast(text: string, action?: Message['action'], ms = visibleMs): () => void {
  const key = queue.add({ text, action }, { timeout: ms })
  return () => queue.close(key)
}

/** Where messages appear; once per page. */
export function Toasts() {
  return (
    <ToastRegion queue={queue} className="toasts">
      {({ toast: one }) => (
        <Toast toast={one} className="toast">
          <ToastContent>
            <Text slot="title">{one.content.text}</Text>
          </ToastContent>
          {one.content.action && (
            <Button
              isCompact
              onPress={() => {
                one.content.action?.run()
                queue.close(one.key)
              }}
            >
              {one.content.action.label}
            </Button>
          )}
          <Button isCompact slot="close" aria-label="Close">
            ×
          </Button>
        </Toast>
      )}
    </ToastRegion>
  )
}
