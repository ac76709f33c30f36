/* list.h: a doubly linked list through a field of its items.
 *
 * Room    core/base.
 * Owns    nothing: an item is on at most one list per link field. A zeroed link is on no list.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef BASE_LIST_H
#define BASE_LIST_H

#include "base/check.h"

struct base_link {
    struct base_link *next;
    struct base_link *prev;
};

struct base_list {
    struct base_link head; /* circular; next == NULL: never initialised */
    uint32_t count;
};

#define BASE_ITEM(link, type, field) ((type *)(void *)((uint8_t *)(link) - offsetof(type, field)))

static inline void base_list_init(struct base_list *list)
{
    list->head.next = &list->head;
    list->head.prev = &list->head;
    list->count = 0;
}
static inline bool base_link_is_on(const struct base_link *link) { return link->next != NULL; }
static inline bool base_list_is_empty(const struct base_list *list) { return list->count == 0; }
static inline void base_list_insert_before(struct base_list *list, struct base_link *place, struct base_link *link)
{
    CHECK(!base_link_is_on(link));
    link->next = place;
    link->prev = place->prev;
    place->prev->next = link;
    place->prev = link;
    list->count += 1;
}
static inline void base_list_push_back(struct base_list *list, struct base_link *link)
{
    base_list_insert_before(list, &list->head, link);
}
static inline void base_list_push_front(struct base_list *list, struct base_link *link)
{
    base_list_insert_before(list, list->head.next, link);
}
static inline void base_list_remove(struct base_list *list, struct base_link *link)
{
    CHECK(base_link_is_on(link));
    CHECK(list->count > 0);
    link->prev->next = link->next;
    link->next->prev = link->prev;
    link->next = NULL;
    link->prev = NULL;
    list->count -= 1;
}
static inline struct base_link *base_list_first(const struct base_list *list)
{
    return list->count == 0 ? NULL : list->head.next;
}
static inline struct base_link *base_list_next(const struct base_list *list, const struct base_link *link)
{
    return link->next == &list->head ? NULL : link->next;
}
static inline struct base_link *base_list_pop_front(struct base_list *list)
{
    struct base_link *link = base_list_first(list);
    if (link != NULL) { base_list_remove(list, link); }
    return link;
}

#endif
